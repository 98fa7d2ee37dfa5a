"""Other people's frameworks and formats. Each module needs its framework, and nothing else imports it."""
