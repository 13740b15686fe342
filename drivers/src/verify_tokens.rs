//! Verification of the tokens of puts: each of them has a row by token and a row by time.

use crate::keys;
use crate::tables::{Reads, Table};
use crate::tokens::decode;
use crate::verify_rows::RowVerifier;

impl<R: Reads> RowVerifier<'_, R> {
    /// The row of a token.
    pub(crate) fn token(&mut self, key: &[u8], value: &[u8]) -> Result<(), R::Error> {
        let Ok((space, token)) = keys::split_token(key) else {
            self.unreadable_token();
            return Ok(());
        };
        let Some(tube) = self.owner(Some(space), Table::Index) else { return Ok(()) };
        let Ok(put) = decode(key, value) else {
            self.report(tube.space, format_args!("the row of the token {token:?} is damaged"));
            return Ok(());
        };
        let by_time = keys::token_by_time(put.until, space, token);
        if self.rows.get(Table::Index, &by_time)?.is_none() {
            self.report(tube.space, format_args!("the token {token:?} has no row by time"));
        }
        Ok(())
    }

    /// The row of a token by time.
    pub(crate) fn token_by_time(&mut self, key: &[u8]) -> Result<(), R::Error> {
        let Ok((until, space, token)) = keys::split_token_by_time(key) else {
            self.unreadable_token();
            return Ok(());
        };
        let Some(tube) = self.owner(Some(space), Table::Index) else { return Ok(()) };
        let key = keys::token(space, token);
        let put = self.rows.get(Table::Index, &key)?.map(|row| decode(&key, &row));
        // A damaged row is a finding of its own.
        let is_stray = put.is_none_or(|put| put.is_ok_and(|put| put.until != until));
        if is_stray {
            self.report(
                tube.space,
                format_args!("a row by time does not match the token {token:?}"),
            );
        }
        Ok(())
    }

    fn unreadable_token(&mut self) {
        self.found.push("the row of a token cannot be read".into());
    }
}
