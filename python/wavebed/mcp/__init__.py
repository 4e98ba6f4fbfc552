"""A server of the Model Context Protocol (MCP) over standard input and output: wavebed for agents."""
