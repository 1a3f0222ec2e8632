// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package strangers

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestLimitServer: a request is answered while a host holds as many connections as the server may have, without a request,
// after a request, or with a request that is not answered yet. The oldest connection is closed.
func TestLimitServer(t *testing.T) {
	const most = 3
	for name, tc := range map[string]struct {
		said string
		is   http.ConnState
	}{
		"silent":          {"", http.StateNew},
		"after a request": {"GET /quick HTTP/1.1\r\nHost: a\r\n\r\n", http.StateIdle},
		"answered":        {"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n", http.StateActive},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/slow" {
					<-r.Context().Done()
				}
			}))
			LimitServer(server.Config, most, most)
			note, reached := server.Config.ConnState, make(chan bool, 100)
			server.Config.ConnState = func(c net.Conn, is http.ConnState) {
				note(c, is)
				if is == tc.is {
					reached <- true
				}
			}
			server.Start()
			t.Cleanup(server.Close)
			var first net.Conn
			for range most + 1 {
				c, err := net.Dial("tcp", server.Listener.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				if _, err := io.WriteString(c, tc.said); err != nil {
					t.Fatal(err)
				}
				<-reached
				if first == nil {
					first = c
				}
			}
			if _, err := io.Copy(io.Discard, first); err != nil {
				t.Errorf("the oldest connection: %v, want its end", err)
			}
			answer, err := http.Get(server.URL + "/quick")
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
		})
	}
}
