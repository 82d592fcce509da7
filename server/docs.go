package server

import (
	_ "embed" // the page
	"net/http"
)

//go:embed docs.html
var docsPage string

// serveDocs answers with a page that shows the OpenAPI document. It loads
// nothing but that, and nothing from elsewhere.
func serveDocs(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write([]byte(docsPage))
}
