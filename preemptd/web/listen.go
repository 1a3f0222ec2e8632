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
)

// Bounds of the memory that a stranger can take by connections to the port.
const (
	maxBody        = 64 << 10
	maxConnections = 1024
)

// Serve answers on l until ctx ends, and closes l. With a certificate Serve speaks TLS.
func (s *Server) Serve(ctx context.Context, l net.Listener, certificate *Certificate) error {
	server := &http.Server{
		Handler: s.Handler(), ErrorLog: slog.NewLogLogger(s.opt.Log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 20 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10,
		BaseContext:    func(net.Listener) context.Context { return ctx },
	}
	l = &bounded{Listener: l, room: make(chan struct{}, maxConnections)}
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

// bounded accepts no connection while maxConnections are open.
type bounded struct {
	net.Listener
	room chan struct{}
}

func (b *bounded) Accept() (net.Conn, error) {
	b.room <- struct{}{}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.room
		return nil, err
	}
	return &counted{Conn: c, leave: sync.OnceFunc(func() { <-b.room })}, nil
}

type counted struct {
	net.Conn
	leave func()
}

func (c *counted) Close() error {
	defer c.leave()
	return c.Conn.Close()
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
