//! A put, checked and converted before the core is locked.

use tubewell_drivers::{Body, PUT_MANY_BYTES, PUT_MANY_TASKS, SUB_QUEUE_MAX};

use crate::micros::micros_ceil;
use crate::{Error, Put, Result};

/// A put, after the checks and conversions that need no lock.
#[derive(Clone, Debug)]
pub(crate) struct PutRequest {
    pub(in crate::core) pri: Option<u32>,
    pub(in crate::core) ttl: Option<u64>,
    pub(in crate::core) ttr: Option<u64>,
    pub(in crate::core) delay: u64,
    pub(in crate::core) sub: Option<String>,
    pub(in crate::core) body: Body,
}

impl PutRequest {
    /// Checks what can be checked without the tube.
    pub(crate) fn new(put: Put, max_body: usize) -> Result<PutRequest> {
        if put.body.len() > max_body {
            return Err(Error::invalid(format!(
                "the body has {} bytes, the limit is {max_body}",
                put.body.len()
            )));
        }
        if put.sub_queue.as_ref().is_some_and(|name| name.len() > SUB_QUEUE_MAX) {
            return Err(Error::invalid(format!(
                "the name of a sub-queue must have at most {SUB_QUEUE_MAX} bytes"
            )));
        }
        Ok(PutRequest {
            pri: put.pri,
            ttl: put.ttl.map(micros_ceil),
            ttr: put.ttr.map(micros_ceil),
            delay: micros_ceil(put.delay),
            sub: put.sub_queue,
            body: Body::new(put.body),
        })
    }

    /// As `new`, for the tasks of one `put_many`. The iterator may be infinite: reading stops at
    /// the limits.
    pub(crate) fn many<T: Into<Put>>(
        tasks: impl IntoIterator<Item = T>,
        max_body: usize,
    ) -> Result<Vec<PutRequest>> {
        let (mut requests, mut bytes) = (Vec::new(), 0);
        for task in tasks {
            let request = PutRequest::new(task.into(), max_body)?;
            bytes += request.body.len();
            if requests.len() == PUT_MANY_TASKS || bytes > PUT_MANY_BYTES {
                return Err(Error::invalid(format!(
                    "put_many accepts at most {PUT_MANY_TASKS} tasks and {PUT_MANY_BYTES} bytes"
                )));
            }
            requests.push(request);
        }
        Ok(requests)
    }
}
