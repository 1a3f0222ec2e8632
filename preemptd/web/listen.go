// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/strangers"
)

// Bounds of the memory that a stranger can take by connections to the port.
const (
	maxBody   = 64 << 10
	maxSilent = 512 // connections without a request that was read
	maxBusy   = 512 // connections with a request that is answered
)

// Serve answers on l until ctx ends, and closes l. With a certificate Serve speaks TLS.
func (s *Server) Serve(ctx context.Context, l net.Listener, certificate *Certificate) error {
	server := &http.Server{
		Handler: s.Handler(), ErrorLog: slog.NewLogLogger(s.opt.Log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: s.headTime, ReadTimeout: 2 * s.headTime, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10, BaseContext: func(net.Listener) context.Context { return ctx },
	}
	strangers.LimitServer(server, maxSilent, maxBusy)
	defer context.AfterFunc(ctx, func() { server.Close() })()
	var err error
	if certificate == nil {
		err = server.Serve(l)
	} else {
		server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate.getCertificate}
		err = server.ServeTLS(l, "", "")
	}
	if errors.Is(err, http.ErrServerClosed) && ctx.Err() != nil {
		return nil
	}
	return err
}

// Certificate is a certificate on disk, read again when its file has changed: certificates are
// renewed while daemons run.
type Certificate struct {
	cert, key string

	mu   sync.Mutex
	then time.Time // of the file that was read
	last *tls.Certificate
}

// LoadCertificate reads a certificate with its chain, and its key, both PEM.
func LoadCertificate(cert, key string) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key}
	_, err := c.getCertificate(nil)
	return c, err
}

// getCertificate is tls.Config.GetCertificate. A new certificate that cannot be read leaves the old
// certificate in use.
func (c *Certificate) getCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st, err := os.Stat(c.cert)
	if err == nil && (c.last == nil || !st.ModTime().Equal(c.then)) {
		var fresh tls.Certificate
		if fresh, err = tls.LoadX509KeyPair(c.cert, c.key); err == nil {
			c.last, c.then = &fresh, st.ModTime()
		}
	}
	if c.last == nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	return c.last, nil
}
