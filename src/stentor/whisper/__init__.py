"""What every Whisper engine shares: features, tokens, rules, languages."""
