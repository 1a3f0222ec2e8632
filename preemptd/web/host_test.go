// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/preemptd/web"
)

// TestHosts: a request by a foreign name for this address gets no data.
func TestHosts(t *testing.T) {
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	h := web.New(web.Options{Keys: web.NewKeys(), State: func() web.State { return web.State{} }, Hosts: []string{"slurm.example"}}).Handler()
	for host, want := range map[string]int{
		"127.0.0.1:6832": 200, "[::1]:6832": 200, "::1": 200, "192.0.2.7": 200, "localhost:6832": 200, "LOCALHOST.": 200, own: 200, own + ":80": 200,
		"slurm.example": 200, "Slurm.Example:6832": 200,
		"evil.example:6832": 421, "slurm.example.evil": 421, "localhost.evil.example": 421, own + ".evil.example": 421, "127.0.0.1.evil.example": 421,
		"": 421, ":6832": 421, "[": 421, "a:b:c": 421,
	} {
		for _, path := range []string{"/", "/app.js", "/api/v1/state", "/api/v1/cluster"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Host = host
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); (w.Code == 421) != (want == 421) {
				t.Errorf("%s with the host %q: %d %s", path, host, w.Code, w.Body)
			}
		}
	}
	for path, over := range map[string]*tls.ConnectionState{"/": {}, "/healthz": nil, "/readyz": nil} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host, r.TLS = "evil.example", over
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code == 421 {
			t.Errorf("%s with a foreign host, TLS %v: %s", path, over != nil, w.Body)
		}
	}
}
