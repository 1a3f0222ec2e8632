// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
)

// onlyKnownHosts lets only requests through that name this host as people do. Otherwise a page
// from anywhere could make its own name this host's address, and have a browser that reaches both
// read all jobs. Over TLS the certificate has proved the name already; monitors read no page.
func onlyKnownHosts(hosts []string, next http.Handler) http.Handler {
	own := []string{"localhost"}
	if name, err := os.Hostname(); err == nil {
		short, _, _ := strings.Cut(name, ".")
		own = append(own, name, short)
	}
	own = append(own, hosts...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := hostOf(r.Host)
		is := func(n string) bool { return strings.EqualFold(n, name) }
		if r.TLS == nil && net.ParseIP(name) == nil && !slices.ContainsFunc(own, is) && r.URL.Path != "/healthz" && r.URL.Path != "/readyz" {
			refuseRequest(w, http.StatusMisdirectedRequest, refusal{
				Kind: "invalid", Error: fmt.Sprintf("preemptd does not know itself as %q", name), Hint: "an administrator can add the name to web.hosts",
			})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostOf is a Host header without port, brackets and last dot.
func hostOf(header string) string {
	host, _, err := net.SplitHostPort(header)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(header, "["), "]")
	}
	return strings.TrimSuffix(host, ".")
}
