// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

type (
	duration  = time.Duration
	netPrefix = netip.Prefix
)

const second = time.Second

// wants is an error whose text is what is accepted.
type wants string

func (w wants) Error() string { return string(w) }

// Each function below returns how one kind of value is read into its field.

func path(field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, v string) error {
		if v != "" && (!filepath.IsAbs(v) || strings.ContainsAny(v, "\x00\n")) {
			return wants("an absolute path")
		}
		if v != "" {
			v = filepath.Clean(v)
		}
		*field(c) = v
		return nil
	}
}

// program is a path, or a name that is looked for in PATH.
func program(field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, v string) error {
		if v == "" || strings.ContainsAny(v, "\x00\n ") || strings.Contains(v, "/") && !filepath.IsAbs(v) {
			return wants("a program's name or absolute path")
		}
		*field(c) = v
		return nil
	}
}

func text(field func(*Config) *string, check func(string) bool, want wants) func(*Config, string) error {
	return func(c *Config, v string) error {
		if v != "" && !check(v) {
			return want
		}
		*field(c) = v
		return nil
	}
}

func choice(field func(*Config) *string, accepted ...string) func(*Config, string) error {
	return func(c *Config, v string) error {
		if !slices.Contains(accepted, v) {
			return wants(strings.Join(accepted[:len(accepted)-1], ", ") + " or " + accepted[len(accepted)-1])
		}
		*field(c) = v
		return nil
	}
}

func number(field func(*Config) *int, from, to int) func(*Config, string) error {
	return func(c *Config, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < from || n > to {
			return wants("a number from " + strconv.Itoa(from) + " to " + strconv.Itoa(to))
		}
		*field(c) = n
		return nil
	}
}

var nameSyntax = regexp.MustCompile(`^@?[A-Za-z_][A-Za-z0-9_.-]*\$?$`)

func names(field func(*Config) *[]string) func(*Config, string) error {
	return func(c *Config, v string) error {
		var list []string
		for s := range strings.SplitSeq(v, ",") {
			if s = strings.TrimSpace(s); s == "" {
				continue
			}
			if !nameSyntax.MatchString(s) {
				return wants("users, and groups as @name, separated by commas")
			}
			list = append(list, s)
		}
		*field(c) = list
		return nil
	}
}

func prefix(field func(*Config) *netPrefix) func(*Config, string) error {
	return func(c *Config, v string) error {
		p, err := netip.ParsePrefix(v)
		if err != nil || !p.Addr().Is4() || p.Bits() > 24 {
			return wants("an IPv4 network of at least 256 addresses, as in 100.64.0.0/10")
		}
		if p.Masked() != p {
			return wants("the network's own address: " + p.Masked().String())
		}
		*field(c) = p
		return nil
	}
}

func level() func(*Config, string) error {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	return func(c *Config, v string) error {
		l, ok := levels[v]
		if !ok {
			return wants("debug, info, warn or error")
		}
		c.Log.Level = l
		return nil
	}
}

func format(c *Config, v string) error {
	if v != "text" && v != "json" {
		return wants("text or json")
	}
	c.Log.JSON = v == "json"
	return nil
}

// age is a duration; 0, or at least least.
func age(field func(*Config) *duration, least duration) func(*Config, string) error {
	return func(c *Config, v string) error {
		d, err := ParseDuration(v)
		if err != nil {
			return err
		}
		if d != 0 && d < least {
			return wants("0, or at least " + least.String())
		}
		*field(c) = d
		return nil
	}
}

var errDuration = wants("a time as in 30s, 10m, 2h or 7d, or 0")

// ParseDuration reads "90s", "1h30m" or "7d"; days are the only unit that Go's own does
// not know. "0" needs no unit. It is not negative.
func ParseDuration(s string) (time.Duration, error) {
	days, rest, found := strings.Cut(s, "d")
	if !found {
		days, rest = "", s
	}
	var total time.Duration
	if found {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return 0, errDuration
		}
		total = time.Duration(n) * 24 * time.Hour
	}
	if rest != "" || !found {
		d, err := time.ParseDuration(rest)
		if err != nil || d < 0 || d > math.MaxInt64-total {
			return 0, errDuration
		}
		total += d
	}
	return total, nil
}

var sizeSyntax = regexp.MustCompile(`^([0-9]{1,12})([KMGT]?)i?B?$`)

// ParseBytes reads a number of bytes, "500M" or "20GiB"; units are powers of 1024.
func ParseBytes(s string) (uint64, error) {
	m := sizeSyntax.FindStringSubmatch(s)
	if m == nil {
		return 0, wants("a size as in 500M, 20G or 1T, or 0")
	}
	n, err := strconv.ParseUint(m[1], 10, 64)
	if err != nil {
		return 0, err
	}
	unit := uint64(1) << (10 * strings.Index(" KMGT", cmp.Or(m[2], " ")))
	if n > math.MaxInt64/unit {
		return 0, wants("a size below 8 EiB")
	}
	return n * unit, nil
}

// bytesIn is bytesOf between two bounds.
func bytesIn(field func(*Config) *uint64, from, to uint64, want wants) func(*Config, string) error {
	return func(c *Config, v string) error {
		n, err := ParseBytes(v)
		if err != nil || n < from || n > to {
			return want
		}
		*field(c) = n
		return nil
	}
}

// bytesOf is a number of bytes.
func bytesOf(field func(*Config) *uint64) func(*Config, string) error {
	return func(c *Config, v string) error {
		n, err := ParseBytes(v)
		if err != nil {
			return err
		}
		*field(c) = n
		return nil
	}
}

var (
	nodeSyntax   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)
	deviceSyntax = regexp.MustCompile(`^[^/\s:]{1,15}$`)
)

func nodeName(s string) bool   { return nodeSyntax.MatchString(s) }
func deviceName(s string) bool { return deviceSyntax.MatchString(s) && s != "." && s != ".." }

// address accepts an IP address, or nothing.
func address(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

func hostPort(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return false
	}
	if host == "" {
		return true
	}
	_, err = netip.ParseAddr(host)
	return err == nil
}

func upper(name string) string {
	return strings.ToUpper(strings.ReplaceAll(name, ".", "_"))
}

// asWants returns what is accepted, if err says so.
func asWants(err error) (string, bool) {
	var w wants
	ok := errors.As(err, &w)
	return string(w), ok
}
