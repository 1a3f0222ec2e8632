// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestSilentConnections: browsers are served while others hold as many connections as the page has at most, silent, in
// the middle of a request's head, in the middle of a request's body, or after a request.
func TestSilentConnections(t *testing.T) {
	for name, said := range map[string]string{
		"silent":          "",
		"half a head":     "GET / HTTP/1.1\r\n",
		"half a body":     "POST /api/v1/jobs/3/preempt HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{",
		"after a request": "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := New(Options{})
			s.headTime = time.Hour // no connection ends because its time is over
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			go s.Serve(t.Context(), l, nil) //nolint:errcheck // the page's answer is looked at
			for range maxSilent + maxBusy {
				c, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				io.WriteString(c, said) //nolint:errcheck // the page may have closed the connection
			}
			client := &http.Client{Timeout: time.Minute}
			answer, err := client.Get("http://" + l.Addr().String() + "/healthz")
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				t.Errorf("status of the answer = %s, want 200", answer.Status)
			}
		})
	}
}
