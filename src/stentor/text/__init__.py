"""From segments to transcripts and subtitles: pure functions."""
