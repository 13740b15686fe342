//! Owners: the sessions that have claims, or have said what they are.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::micros::duration;
use crate::core::state::{About, ClaimState, Core, Decided, SessionState};
use crate::core::verb::{Decide, Limits, verb};
use crate::values::owner::OwnerInfo;
use crate::{Error, Result, SessionId};

/// The longest kind and the longest metadata of a session, in bytes.
const KIND_MAX: usize = 255;
const METADATA_MAX: usize = 4096;

verb! {
    /// What a session says of itself, instead of what it has said before; `None` for nothing.
    21 InStore Memory: DescribeSession { id: SessionId, about: Option<About> } -> () {
        const AT_ONCE: bool = true;

        fn may_repeat(&self) -> bool {
            true
        }

        fn check(&self, _: Limits) -> Result<()> {
            let Some(About { kind, metadata }) = &self.about else { return Ok(()) };
            check_length("kind", kind, KIND_MAX)?;
            check_length("metadata", metadata, METADATA_MAX)
        }
    }
}

impl Decide for DescribeSession {
    fn decide(&self, core: &mut Core, (): ()) -> Result<Decided<()>> {
        core.check_session(self.id)?;
        if let Some(session) = core.sessions.get_mut(self.id) {
            session.about.clone_from(&self.about);
        }
        Ok(Decided::now(()))
    }
}

fn check_length(what: &str, text: &str, most: usize) -> Result<()> {
    if text.len() <= most {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the {what} of a session may have {most} bytes; this one has {}",
        text.len()
    )))
}

verb! {
    /// The sessions that have claims or a description, and those that have parked a claim: by label,
    /// then by session.
    22 InStore Look: Owners {} -> Vec<OwnerInfo> {
        const IN_OUTAGE: bool = true;
    }
}

impl Decide for Owners {
    fn decide(&self, core: &mut Core, (): ()) -> Result<Decided<Vec<OwnerInfo>>> {
        Ok(Decided::now(core.owners()))
    }
}

impl Core {
    /// Whether one of these sessions has a claim.
    pub(crate) fn have_claims(&self, sessions: &BTreeSet<SessionId>) -> bool {
        let session = |id: &SessionId| self.sessions.get(*id);
        sessions.iter().filter_map(session).any(|session| !session.claims.is_empty())
    }

    fn owners(&self) -> Vec<OwnerInfo> {
        let mut owners: BTreeMap<(Option<&str>, SessionId), OwnerInfo> = BTreeMap::new();
        let is_listed = |session: &SessionState| session.about.is_some() && !session.has_ended;
        for (id, session) in self.sessions.iter().filter(|(_, session)| is_listed(session)) {
            owners.insert((session.label.as_deref(), id), self.owner_info(id));
        }
        for claim in self.claims.values().filter(|claim| self.is_live(claim)) {
            let parked = claim.parked.as_deref().filter(|parked| parked.until.is_some());
            let label = self.label(claim);
            let key = (label.map(|label| &**label), claim.session);
            let owner = owners.entry(key).or_insert_with(|| OwnerInfo {
                label: label.cloned(),
                ..self.owner_info(claim.session)
            });
            match parked {
                Some(_) => owner.parked += 1,
                None if claim.deadline <= self.now.running => owner.overdue += 1,
                None => owner.running += 1,
            }
        }
        owners.into_values().collect()
    }

    /// What is known of a session, but for its claims.
    fn owner_info(&self, id: SessionId) -> OwnerInfo {
        let ago = |then: u64| duration(self.now.running.saturating_sub(then));
        let session = self.sessions.get(id);
        let about = session.and_then(|session| session.about.as_ref());
        OwnerInfo {
            session: id,
            label: session.and_then(|session| session.label.clone()),
            kind: about.map(|about| about.kind.clone()),
            metadata: about.map(|about| about.metadata.clone()),
            since: session.map(|session| ago(session.since)),
            last_seen: session.map(|session| ago(session.last_seen)),
            running: 0,
            overdue: 0,
            parked: 0,
        }
    }

    /// Whether a claim has not ended.
    pub(super) fn is_live(&self, claim: &ClaimState) -> bool {
        let has_holder = claim.parked_until().is_some() || !self.has_ended(claim.session);
        has_holder
            && claim.ends_at() > self.now.running
            && claim.parked_until().is_none_or(|until| until > self.now.timeline)
            && claim.header.expires_at > self.now.timeline
    }
}
