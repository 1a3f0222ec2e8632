// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package strangers

import (
	"crypto/tls"
	"net"
	"net/http"
)

// LimitServer bounds the connections of a server that is not serving yet: at most silent connections wait for a request,
// and at most busy connections have a request that is being answered.
func LimitServer(server *http.Server, silent, busy int) {
	waiting, answered := New(silent), New(busy)
	server.ConnState = func(c net.Conn, is http.ConnState) {
		if secured, ok := c.(*tls.Conn); ok {
			c = secured.NetConn() // to close a TLS connection may take seconds
		}
		switch is {
		case http.StateNew, http.StateIdle:
			answered.Remove(c)
			waiting.Add(c)
		case http.StateActive:
			waiting.Remove(c)
			answered.Add(c)
		case http.StateHijacked, http.StateClosed:
			waiting.Remove(c)
			answered.Remove(c)
		}
	}
}
