package server_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ovn-vpc/ovn-vpc/lab"
)

// watch reads the events of a watch as `EVENT NAME`; heartbeats and synced are left out.
func (f *fixture) watch(query string) <-chan string {
	f.t.Helper()
	request, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, f.url+"/v1/watch?"+query, nil)
	require.NoError(f.t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(f.t, err)
	require.Equal(f.t, http.StatusOK, response.StatusCode)
	f.t.Cleanup(func() { _ = response.Body.Close() })
	events := make(chan string, 100)
	go func() {
		defer close(events)
		event := ""
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			if word, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				event = word
			}
			_, name, ok := strings.Cut(lines.Text(), `"metadata":{"name":"`)
			if name, _, _ = strings.Cut(name, `"`); ok {
				events <- event + " " + name
			}
		}
	}()
	return events
}

// What one server changes those who watch another hear of, each only of what
// concerns it.
func TestWatchAcrossServers(t *testing.T) {
	f := newFixture(t, lab.SandboxOptions{NoNorthd: true})
	f.shop()
	f.call("PUT", attachments+"/old", `{"spec": {"tier": "web", "chassis": "hv1"}}`).is(201)
	other := serveInsecure(t, f.sandbox)
	other.ready()
	mine, all := other.watch("chassis=hv1"), other.watch("vpc=shop&kind=attachments&initial=false")
	require.Equal(t, "added old", <-mine)
	f.call("PUT", attachments+"/one", `{"spec": {"tier": "web", "chassis": "hv1"}}`).is(201)
	require.Equal(t, "added one", <-mine)
	require.Equal(t, "added one", <-all)
	f.call("PUT", attachments+"/two", `{"spec": {"tier": "web", "chassis": "hv2"}}`).is(201)
	require.Equal(t, "added two", <-all)
	f.call("PATCH", attachments+"/one", `{"spec": {"chassis": "hv2"}}`).is(200)
	require.Equal(t, "deleted one", <-mine, "it is no longer of that chassis")
	require.Equal(t, "modified one", <-all)
	f.call("PATCH", attachments+"/two", `{"spec": {"migratingTo": "hv1"}}`).is(200)
	require.Equal(t, "added two", <-mine)
	require.Equal(t, "modified two", <-all)
	f.call("DELETE", "/v1/vpcs/shop?cascade=true", "").is(200)
	require.ElementsMatch(t, []string{"deleted old", "deleted two"}, []string{<-mine, <-mine})
}
