/** The header that brings a token. Headers carry bytes: those of UTF-8, so that a token may have any letters. */
const authorization = (token) => `Bearer ${String.fromCharCode(...new TextEncoder().encode(token))}`;
