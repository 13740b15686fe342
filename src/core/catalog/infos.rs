//! What callers are told of tubes.

use super::similar::similar;
use super::tubes::TubeHead;
use crate::core::state::{Core, Decided, TubeState};
use crate::core::verb::{Decide, TubeRef, verb};
use crate::{Error, Result, TubeInfo};

verb! {
    /// What the handle of a tube keeps of it.
    8 InStore Look: FindTube { name: Box<str> } -> TubeHead
}

impl Decide for FindTube {
    fn decide(&self, core: &mut Core, (): ()) -> Result<Decided<TubeHead>> {
        core.find_tube(&self.name).map(Decided::now)
    }
}

verb! {
    /// The public descriptions of all tubes, by name.
    10 InStore Look: Tubes {} -> Vec<TubeInfo> {
        const IN_OUTAGE: bool = true;
    }
}

impl Decide for Tubes {
    fn decide(&self, core: &mut Core, (): ()) -> Result<Decided<Vec<TubeInfo>>> {
        let tubes = core.tubes.names().filter_map(|(_, number)| core.tubes.get(number));
        let infos = tubes.map(|tube| tube.info(core.now.timeline));
        Ok(Decided::now(infos.collect()))
    }
}

verb! {
    /// The public description of a tube.
    48 InTube Look: InfoOf {} -> TubeInfo
}

impl Decide for InfoOf {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<TubeInfo>> {
        let tube = core.tubes.get(number).ok_or(Error::Closed)?;
        Ok(Decided::now(tube.info(core.now.timeline)))
    }
}

verb! {
    /// Whether the driver of a tube has delays, and claims that expire.
    50 InTube Look: IsTimed {} -> bool
}

impl Decide for IsTimed {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<bool>> {
        let tube = core.tubes.get(number);
        Ok(Decided::now(tube.is_some_and(|tube| tube.definition.timed)))
    }
}

impl Core {
    pub(crate) fn find_tube(&self, name: &str) -> Result<TubeHead> {
        self.check_open()?;
        match self.tubes.named(name) {
            Some(number) => Ok(self.head(number)),
            None => {
                let similar = similar(name, self.tubes.names().map(|(known, _)| &**known));
                Err(Error::TubeNotFound { name: name.into(), similar })
            }
        }
    }
}

impl TubeState {
    /// The public description, at this moment of the timeline.
    fn info(&self, now: u64) -> TubeInfo {
        TubeInfo {
            waiting: self.waiting_takes.len() as u64,
            waiting_puts: self.waiting_puts.len() as u64,
            ..self.definition.info(self.driver.is_some(), now)
        }
    }
}
