"""The live page of running laboratories, and the HTTP API behind it: ``wavebed ui``.

`listen` opens the server; `guard` decides who may ask; `routes` and `api` say what may be asked, and `openapi` writes
that down. What can be shown and changed is defined in `wavebed.path.live`, for ``wavebed ctl`` too. No request names a
path or a command.
"""
