//! The header by which a client notices that the members have changed.

use super::describe::Operation;
use crate::edge::headers;
use http::StatusCode;
use serde_json::json;

impl Operation<'_> {
    /// The answer has the number of the newest members.
    pub(super) fn with_members(self) -> Self {
        let about = "A number that is another one after each change of the members or of their addresses, as this server knows \
                     them. If it is not the one that you know, read the members again: `GET /v1/cluster`.";
        let number = json!({ "type": "integer", "minimum": 0 });
        self.answer_header(StatusCode::OK, headers::MEMBERS.as_str(), about, number)
    }
}
