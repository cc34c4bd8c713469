"""Telemetry, on the ground: span values, the helpers that make them, their export and their checks.

records     what a span is, as values (pure)
attributes  names of spans, attributes, events and metrics (pure)
spans       opening, using and ending spans; OTel API only
content     prompts, arguments and results as attributes: redacted and cut (pure)
tree        the spans of one trace as a tree (pure)
check       what is wrong with a trace, as sentences (pure)
tracefile   OTLP-JSON lines: writing, reading
settings    where spans go, from options and environment (pure)
worker      a bounded queue and the thread that empties it
export      OTLP/HTTP and trace files; the only module that imports the OTel SDK
testing     a recording exporter and a small OTLP receiver for tests
"""
