"""The guest kernel of wavebed's virtual time, as a file: `linux`."""
