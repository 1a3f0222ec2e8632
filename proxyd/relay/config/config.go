// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package config has the settings that an administrator gives the relay: a struct, filled from a table of keys by
// package table.
package config

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/config/table"
)

// File is the path of the configuration unless another is given.
const File = "/etc/singularity-slurm/relay.yaml"

// Config is the configuration. The table of keys has the meaning of each field.
type Config struct {
	Listen      string
	Links       string
	User        string
	Allow       []netip.Prefix
	Deny        []netip.Prefix
	PerUser     int
	Keep        time.Duration
	Clients     Clients
	MungeSocket string
	Log         table.Log

	values table.Values
}

// Clients says at which ports the relay listens for clients of jobs, and bounds their number.
type Clients struct {
	First      uint16 // ports, from First to Last; 0: the relay does not listen
	Last       uint16
	PerUser    int           // ports of a user
	PerPort    int           // clients of a port
	WaitAtMost time.Duration // wait of a client while the job is away
}

var keys = table.Table[Config]{Daemon: "proxyd relay", Variables: "SINGULARITY_SLURM_RELAY_", Keys: []table.Key[Config]{
	{Name: "listen", Default: ":6833", Meaning: "Address and port for the nodes' proxyds, which name it as relay in proxyd.yaml.",
		Set: table.Text(func(c *Config) *string { return &c.Listen }, isHostPort, "[ADDRESS]:PORT")},
	{Name: "links", Default: ":6834", Meaning: "Address and port to which the nodes carry connections of jobs, at the same host.",
		Set: table.Text(func(c *Config) *string { return &c.Links }, isHostPort, "[ADDRESS]:PORT")},
	{Name: "user", Default: "nobody", Meaning: "User of the process that connects to outside. It needs no rights and no files.",
		Set: table.Text(func(c *Config) *string { return &c.User }, isUser, "a user of this host other than root")},
	{Name: "allow", Meaning: "Networks to which it connects, such as 10.2.0.0/16, and addresses. Empty: to all addresses but those of its\nown host. What its host may reach and nodes may not belongs in deny, or its host is the wrong one.",
		Set: wantPrefixes(func(c *Config) *[]netip.Prefix { return &c.Allow }), List: true},
	{Name: "deny", Default: "100.64.0.0/10", Meaning: "Networks and addresses to which it does not connect, although allow has them: network.range of the nodes' proxyds,\nin which other jobs are, among them.",
		Set: wantPrefixes(func(c *Config) *[]netip.Prefix { return &c.Deny }), List: true},
	{Name: "per_user", Default: "1024", Meaning: "Connections of one user at a time. Each takes up to 512 KiB of memory.",
		Set: table.Number(func(c *Config) *int { return &c.PerUser }, 1, 1_000_000)},
	{Name: "keep", Default: "7d", Meaning: "How long connections of a job are kept that is away, and that no node names.",
		Set: wantAge(func(c *Config) *time.Duration { return &c.Keep })},
	{Name: "clients.ports", Meaning: "Ports of this host, such as 7000-7999, at which clients outside reach programs of jobs with --singularity-listen.\nWhoever reaches the port reaches the program. Empty: the relay does not listen for clients.",
		Set: wantPorts(func(c *Config) *Clients { return &c.Clients })},
	{Name: "clients.per_user", Default: "16", Meaning: "Such ports of one user at a time.",
		Set: table.Number(func(c *Config) *int { return &c.Clients.PerUser }, 1, 64_000)},
	{Name: "clients.per_port", Default: "64", Meaning: "Clients of one such port at a time; others are reset. Each takes up to 512 KiB of memory.",
		Set: table.Number(func(c *Config) *int { return &c.Clients.PerPort }, 1, 1_000_000)},
	{Name: "clients.wait", Default: "5m", Meaning: "How long a client that comes while the job is away waits for it. Then the client is reset.",
		Set: wantAge(func(c *Config) *time.Duration { return &c.Clients.WaitAtMost })},
	{Name: "munge_socket", Meaning: "Socket of munged. Empty: munge's own default.",
		Set: table.Text(func(c *Config) *string { return &c.MungeSocket }, filepath.IsAbs, "an absolute path")},
	{Name: "log.level", Default: "info", Meaning: "debug, info, warn or error.",
		Set: table.LogLevel(func(c *Config) *table.Log { return &c.Log })},
	{Name: "log.format", Default: "text", Meaning: "text (key=value) or json, one object a line.",
		Set: table.LogFormat(func(c *Config) *table.Log { return &c.Log })},
}}

func isHostPort(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return false
	}
	_, err = netip.ParseAddr(host)
	return host == "" || err == nil
}

var userSyntax = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*\$?$`)

func isUser(s string) bool { return userSyntax.MatchString(s) && s != "root" }

// wantPrefixes parses networks and addresses.
func wantPrefixes(field func(*Config) *[]netip.Prefix) func(*Config, string) error {
	return func(c *Config, v string) error {
		var all []netip.Prefix
		for s := range strings.SplitSeq(v, ",") {
			if s = strings.TrimSpace(s); s == "" {
				continue
			}
			p, err := netip.ParsePrefix(s)
			if a, bad := netip.ParseAddr(s); err != nil && bad == nil {
				p, err = a.Prefix(a.BitLen())
			}
			if err != nil || !p.Addr().Is4() {
				return errors.New("IPv4 networks as in 10.2.0.0/16, and addresses, separated by commas")
			}
			all = append(all, p.Masked())
		}
		*field(c) = all
		return nil
	}
}

// firstUnprivileged is the first port at which programs without special rights may listen.
const firstUnprivileged = 1024

// wantPorts parses a range of ports.
func wantPorts(field func(*Config) *Clients) func(*Config, string) error {
	return func(c *Config, v string) error {
		if v == "" {
			return nil
		}
		from, to, ranges := strings.Cut(v, "-")
		if !ranges {
			to = from
		}
		first, err := strconv.ParseUint(from, 10, 16)
		last, bad := strconv.ParseUint(to, 10, 16)
		if err != nil || bad != nil || first < firstUnprivileged || last < first {
			return errors.New("ports from 1024 to 65535, as in 7000-7999")
		}
		field(c).First, field(c).Last = uint16(first), uint16(last)
		return nil
	}
}

func wantAge(field func(*Config) *time.Duration) func(*Config, string) error {
	return func(c *Config, v string) error {
		d, err := table.ParseDuration(v)
		if err != nil {
			return err
		}
		if d < time.Minute {
			return errors.New("at least 1m")
		}
		*field(c) = d
		return nil
	}
}

// Load reads the file, and lets the environment, of "NAME=value" as from os.Environ, override the file. All mistakes
// are reported at once. A file with the name File need not exist: every key has a default. Only root may be able
// to write to the file.
func Load(file string, environ []string) (*Config, error) {
	b, err := table.ReadFile(file)
	if err != nil && (!errors.Is(err, os.ErrNotExist) || file != File) {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	c := &Config{}
	var errs []error
	if c.values, errs = keys.Parse(c, file, b, environ, nil); len(errs) > 0 {
		return nil, fmt.Errorf("configuration: %w", errors.Join(errs...))
	}
	return c, nil
}

// Explain prints the configuration, each key with its meaning.
func (c *Config) Explain(w io.Writer) error { return keys.Explain(w, c.values) }

// Reference returns each key with its meaning.
func Reference() [][2]string { return keys.Reference() }
