//! The description of the calls (`OpenAPI` 3.1), made of the handlers and of their types.

use tubewell_json::check::{CheckProgress, CheckResult};
use tubewell_json::event::{DetailsRecord, EventRecord};
use tubewell_json::record::FailureRecord;
use tubewell_json::schema;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, InfoBuilder, LicenseBuilder, OpenApi as Description, OpenApiBuilder,
};

use crate::problem::ProblemJson;

/// The title, the license and the security of the description.
pub(crate) fn head() -> Description {
    let token = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    let info = InfoBuilder::new()
        .title("tubewell")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "A persistent queue of tasks: tubes, tasks, takes as long polls, claims, schedules, events. \
             Times are seconds or texts such as `10m`; moments are texts of RFC 3339. Refusals are problem \
             details (RFC 9457).",
        ))
        .license(Some(
            LicenseBuilder::new().name("MIT OR Apache-2.0").identifier(Some("MIT OR Apache-2.0")).build(),
        ));
    OpenApiBuilder::new()
        .info(info.build())
        .components(Some(
            ComponentsBuilder::new()
                .security_scheme("token", token)
                .schema_from::<ProblemJson<'_>>()
                .schema_from::<CheckProgress>()
                .schema_from::<CheckResult>()
                // The values of a map are not found by themselves.
                .schema_from::<schema::OptionValue>()
                // The data of events, which are no JSON themselves.
                .schema_from::<EventRecord<'_>>()
                .schema_from::<DetailsRecord<'_>>()
                .schema_from::<FailureRecord<'_>>()
                .schema_from::<schema::Body>()
                .schema_from::<schema::Progress>()
                .schema_from::<schema::TaskState>()
                .build(),
        ))
        // Without a token on the server, no call sends one.
        .security(Some([
            SecurityRequirement::default(),
            SecurityRequirement::new("token", [] as [&str; 0]),
        ]))
        .build()
}
