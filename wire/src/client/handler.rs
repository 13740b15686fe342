//! What the application of a client says and hears.

/// What the application of a [`Client`](crate::Client) says and hears.
///
/// The methods are called on the thread of the client, or on the thread that drops a [`Pending`](crate::Pending), and hold
/// up all answers: they must not block. A panic in `hello` or `welcome` ends the client; others are ignored.
pub trait Handler: Send + Sync + 'static {
    /// What the client says of itself, for each connection that it makes: at most
    /// [`HELLO_BODY`](crate::HELLO_BODY) bytes. The client of a longer one is ended.
    fn hello(&self) -> Vec<u8>;

    /// The server's welcome, for each connection.
    ///
    /// # Errors
    ///
    /// The text ends the client for good.
    fn welcome(&self, welcome: &[u8]) -> Result<(), String>;

    /// An answer whose [`Pending`](crate::Pending) was dropped before it was taken.
    fn orphan(&self, body: &[u8]);

    /// Why the server has refused a call, if `answer` is a refusal: the call had no effect. By default, no
    /// answer is one.
    ///
    /// The client asks this of the answer to a call that [changes](crate::CallKind::changes) something, was sent
    /// on an earlier connection and was made again. The first attempt may have had its effect although the last
    /// one was refused, so such a call returns [`CallError::Broken`](crate::CallError::Broken) with this reason.
    fn refusal(&self, answer: &[u8]) -> Option<String> {
        let _ = answer;
        None
    }

    /// An answer has arrived. Its caller has not got it yet, or has gone.
    fn arrived(&self, answer: &[u8]) {
        let _ = answer;
    }

    /// It is time to tell the server that this client is there; see [`Client::set_beat`](crate::Client::set_beat).
    fn beat(&self) {}

    /// The connection has broken. The client will make another one.
    fn broken(&self);
}
