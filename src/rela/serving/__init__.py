"""The HTTP service: translations and scores for many clients at once, and a page to look at them."""
