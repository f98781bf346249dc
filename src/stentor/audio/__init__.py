"""From any container to chunks: synchronous, pure, without asyncio."""
