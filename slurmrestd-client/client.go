// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config says how to reach slurmrestd, and the user of the requests. Only Address is needed; a zero
// field has the default that its comment names.
type Config struct {
	// Address is "unix:/run/slurmrestd/slurmrestd.sock", "http://host:6820",
	// "https://host:6820" or "tcp://host:6820" (the same as http).
	Address string
	// Token authenticates each request (rest_auth/jwt). Without a token, the server must know the
	// user by the socket (rest_auth/local), so Address must be a unix socket.
	Token TokenProvider
	// AsUser is the user that requests are made for. Slurm allows AsUser to root over the socket
	// and to tokens of root or SlurmUser.
	AsUser string
	// Versions limits the versions of the REST API that are tried; nil: all.
	Versions []string

	// Timeout ends a request with a context that has no deadline. The time of callbacks of EachJob
	// counts. Default 2 minutes.
	Timeout time.Duration
	// Dial replaces net.Dialer.DialContext.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// TLS is for https; nil: the system's roots.
	TLS *tls.Config
	// Transport replaces the HTTP transport altogether; Dial and TLS have no
	// effect then.
	Transport http.RoundTripper

	// MaxBody bounds the bytes of an answer; default 8 GiB. MaxRecord bounds the memory that a
	// single job, node or other record may take; default 4 MiB.
	MaxBody   int64
	MaxRecord int64

	// Scontrol carries out requests that the negotiated version lacks; nil: such requests fail. See
	// ExecScontrol.
	Scontrol Scontrol
	// RequeueExit is the site's RequeueExit= of slurm.conf, 1 to 255; 0: the site has none.
	// RequeueSignal asks a job to exit with RequeueExit; default "USR2". See Requeue.
	RequeueExit   int
	RequeueSignal string

	// ClockSkew is how far the clocks of this host and of slurmctld may differ; only incremental
	// lists over v0.0.38 depend on ClockSkew. Default 5 s.
	ClockSkew time.Duration
	// Now replaces time.Now.
	Now func() time.Time

	// Observe is called after each request, with its result; nil: no call. Observe must be quick,
	// and safe for concurrent use.
	Observe func(Exchange)
}

const (
	defaultTimeout   = 2 * time.Minute
	defaultMaxBody   = 8 << 30
	defaultMaxRecord = 4 << 20
	defaultSkew      = 5 * time.Second
	defaultSignal    = "USR2" // USR1 is taken by NCCL and by training frameworks
)

// Client speaks to a slurmrestd. A Client is safe for concurrent use, and holds idle connections
// until Close.
type Client struct {
	cfg    Config
	base   url.URL
	reads  *http.Client // keeps connections
	writes *http.Client // a fresh connection each
	limits limits
	sleep  func(context.Context, time.Duration) error

	server        *negotiation
	scontrolProbe scontrolProbe
}

// New returns a client. New checks the configuration, and its error names the wrong field. It does
// not use the network: the first request negotiates the version.
func New(cfg Config) (*Client, error) {
	if err := cfg.fillDefaults(); err != nil {
		return nil, fmt.Errorf("slurmrest: %w", err)
	}
	base, socket, err := parseAddress(cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("slurmrest: address %w", err)
	}
	if socket == "" && cfg.Token == nil {
		return nil, errors.New("slurmrest: token: needed for any address but a unix socket")
	}
	offers, err := chooseDialects(cfg.Versions)
	if err != nil {
		return nil, fmt.Errorf("slurmrest: versions: %w", err)
	}
	c := &Client{
		cfg:    cfg,
		base:   base,
		limits: limits{body: cfg.MaxBody, record: cfg.MaxRecord},
		sleep:  sleepUnlessDone,
		server: newNegotiation(offers),
	}
	c.reads = cfg.httpClient(socket, true)
	c.writes = cfg.httpClient(socket, false)
	return c, nil
}

// Close drops idle connections. The client may still be used afterwards.
func (c *Client) Close() {
	c.reads.CloseIdleConnections()
	c.writes.CloseIdleConnections()
}

// fillDefaults sets defaults and checks all fields but the address.
func (cfg *Config) fillDefaults() error {
	orDefault(&cfg.Timeout, defaultTimeout)
	orDefault(&cfg.MaxBody, defaultMaxBody)
	orDefault(&cfg.MaxRecord, defaultMaxRecord)
	orDefault(&cfg.ClockSkew, defaultSkew)
	orDefault(&cfg.RequeueSignal, defaultSignal)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	switch {
	case cfg.RequeueExit < 0 || cfg.RequeueExit > 255:
		return fmt.Errorf("requeue exit %d: want an exit code from 1 to 255, or 0 for none", cfg.RequeueExit)
	case !signalName(cfg.RequeueSignal):
		return fmt.Errorf("requeue signal %q: want a name like USR2", cfg.RequeueSignal)
	case strings.ContainsFunc(cfg.AsUser, notTokenByte):
		return fmt.Errorf("as user %q: not a user name", cfg.AsUser)
	case cfg.Timeout < 0 || cfg.MaxBody < 0 || cfg.MaxRecord < 0 || cfg.ClockSkew < 0:
		return errors.New("timeout, limits and clock skew cannot be negative")
	}
	return nil
}

func orDefault[T comparable](value *T, otherwise T) {
	var zero T
	if *value == zero {
		*value = otherwise
	}
}

// parseAddress returns the base of all URLs, and the path of a unix socket or "".
func parseAddress(address string) (base url.URL, socket string, err error) {
	const want = `want "unix:/path", "http://host:port" or "https://host:port"`
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		path = strings.TrimPrefix(path, "//")
		if !strings.HasPrefix(path, "/") {
			return url.URL{}, "", fmt.Errorf("%q: the socket's path is not absolute; %s", address, want)
		}
		return url.URL{Scheme: "http", Host: "localhost"}, path, nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return url.URL{}, "", fmt.Errorf("%q: %s", address, want)
	}
	switch u.Scheme {
	case "http", "https":
	case "tcp":
		u.Scheme = "http"
	default:
		return url.URL{}, "", fmt.Errorf("%q: %s", address, want)
	}
	return url.URL{Scheme: u.Scheme, Host: u.Host}, "", nil
}

// httpClient returns a client that follows no redirect: a redirect would carry the
// token elsewhere, and slurmrestd never redirects.
func (cfg *Config) httpClient(socket string, keep bool) *http.Client {
	transport := cfg.Transport
	if transport == nil {
		transport = cfg.makeTransport(socket, keep)
	}
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// makeTransport dials the socket or the host. Requests that change something get a connection of their
// own (keep is false): on a kept connection, a close by the server could not be told from the
// server's end half way through the request.
func (cfg *Config) makeTransport(socket string, keep bool) *http.Transport {
	dial := cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	}
	if socket != "" {
		direct := dial
		dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return direct(ctx, "unix", socket)
		}
	}
	return &http.Transport{
		DialContext:         dial,
		TLSClientConfig:     cfg.TLS,
		TLSHandshakeTimeout: 10 * time.Second,
		DisableCompression:  true,
		DisableKeepAlives:   !keep,
		MaxIdleConnsPerHost: 4,
		IdleConnTimeout:     30 * time.Second,
	}
}

// sleepUnlessDone waits, or returns the context's error.
func sleepUnlessDone(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
