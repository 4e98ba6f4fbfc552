"""A trial as a value: what is resolved once, and can be written down, sent, stored and run elsewhere.

The types here are those of the engine's input (``docs/development/laboratory-file.md``) and of ``spec.json``. They hold
no text with units: times are nanoseconds, sizes bytes, rates bits per second, probabilities numbers from 0 to 1.
"""
