"""Models: the protocol (`base`), pure codecs, one HTTP transport, the scripted model, and the catalogue.

A name becomes a model in `catalog`. `openai_chat_model` joins a codec (`openai_chat`, `sse`,
`provider_errors`) to the transport (`http`, `connections`, `proxies`); `scripted` plays a `script` whose
`placeholders` are filled in. `retry` is the one policy that the agent loop asks after a failed request. Only
the transport, the two models and the catalogue do I/O.
"""
