//! The log of the process, and the export of its spans.

use clap::ValueEnum;
use escale::Result;

/// The form of the lines of the log.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(super) enum LogFormat {
    Text,
    Json,
}

impl LogFormat {
    /// Begins the log, and the export of spans to a collector. The export ends with the value that it returns, after the
    /// last spans were sent. Errors: `bad_option`.
    pub(super) fn start(self, collector: Option<&str>) -> Result<Option<Exporting>> {
        let Some(collector) = collector else {
            let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false);
            match self {
                LogFormat::Text => log.init(),
                LogFormat::Json => log.json().flatten_event(true).with_span_list(false).init(),
            }
            return Ok(None);
        };
        export(self, collector).map(Some)
    }
}

/// An export of spans.
#[cfg(feature = "otlp")]
pub(super) struct Exporting(opentelemetry_sdk::trace::SdkTracerProvider);

#[cfg(not(feature = "otlp"))]
pub(super) enum Exporting {}

#[cfg(not(feature = "otlp"))]
fn export(_: LogFormat, _: &str) -> Result<Exporting> {
    let detail = "this server was built without OTLP: build it with `--features otlp`";
    Err(escale::Error::new(escale::Code::BadOption, detail))
}

#[cfg(feature = "otlp")]
impl Drop for Exporting {
    fn drop(&mut self) {
        if let Err(error) = self.0.shutdown() {
            tracing::warn!(%error, "the last spans were not exported");
        }
    }
}

#[cfg(feature = "otlp")]
fn export(format: LogFormat, collector: &str) -> Result<Exporting> {
    use escale::{Code, Error};
    use opentelemetry::trace::TracerProvider;
    use opentelemetry_otlp::{SpanExporter, WithExportConfig};
    use opentelemetry_sdk::Resource;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use tracing_subscriber::filter::{LevelFilter, Targets};
    use tracing_subscriber::prelude::*;

    use crate::spans::SPANS;

    let bad = |detail: String| Error::new(Code::BadOption, format!("--otlp {collector}: {detail}"));
    if !collector.starts_with("http://") {
        return Err(bad("write it as http://HOST:4318; TLS to a collector is not built".into()));
    }
    // The client of the export wants to know which TLS it would use, though it uses none.
    drop(tokio_rustls::rustls::crypto::ring::default_provider().install_default());
    let exporter = SpanExporter::builder()
        .with_http()
        .with_endpoint(format!("{}/v1/traces", collector.trim_end_matches('/')))
        .build()
        .map_err(|error| bad(error.to_string()))?;
    let mut resource = Resource::builder();
    if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
        resource = resource.with_service_name("escale-server");
    }
    let provider =
        SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build()).build();
    let spans = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("escale-server"))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_target(false)
        .with_level(false)
        .with_filter(Targets::new().with_target(SPANS, LevelFilter::DEBUG));
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    let log = match format {
        LogFormat::Text => log.boxed(),
        LogFormat::Json => log.json().flatten_event(true).with_span_list(false).boxed(),
    };
    tracing_subscriber::registry().with(log.with_filter(LevelFilter::INFO)).with(spans).init();
    Ok(Exporting(provider))
}
