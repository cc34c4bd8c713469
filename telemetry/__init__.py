"""Telemetry, on the ground: span values, the helpers that make them, their export and their checks.

records     what a span is, as values (pure)
attributes  names of spans, attributes, events and metrics (pure)
facts       what each kind of span says from its start (pure)
spans       opening, using and ending spans; OTel API only
content     prompts, arguments and results as attributes: redacted and cut (pure)
tree        the spans of one trace as a tree (pure)
check       what is wrong with a trace, as sentences (pure)
tracefile   OTLP-JSON lines: writing, reading
settings    where spans go, from options and environment (pure)
worker      a bounded queue and the thread that empties it
quiet       no log records of the exporters on the sending threads
metrics     counts and durations, derived from ended spans; imports the OTel SDK
export      OTLP/HTTP and trace files; imports the OTel SDK
jaeger      reading one trace from a Jaeger
testing     a recording exporter and a small OTLP receiver for tests
"""
