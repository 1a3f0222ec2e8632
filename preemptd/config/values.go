// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Each function below returns how one kind of value is read into its field. Its error is
// what is accepted.

func text(field func(*Config) *string, check func(string) bool, want string) func(*Config, string) error {
	return func(c *Config, v string) error {
		if !check(v) {
			return errors.New(want)
		}
		*field(c) = v
		return nil
	}
}

func path(v string) bool { return filepath.IsAbs(v) && !strings.ContainsAny(v, "\x00\n") }

func absolute(v string) bool { return v == "" || path(v) }

func step(v string) bool { return v == "" || stepSyntax.MatchString(v) }

func name(v string) bool { return v == "" || nameSyntax.MatchString(v) }

func address(v string) bool {
	return strings.HasPrefix(v, "unix:/") || strings.HasPrefix(v, "http://") || strings.HasPrefix(v, "https://")
}

func port(v string) bool {
	n, err := strconv.ParseUint(v, 10, 16)
	return err == nil && n > 0
}

// hostPort is where to listen; port 0 is any that is free.
func hostPort(v string) bool {
	_, port, err := net.SplitHostPort(v)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	return v == "" || err == nil
}

func number(field func(*Config) *int, from, to int) func(*Config, string) error {
	return func(c *Config, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < from || n > to {
			return fmt.Errorf("a number from %d to %d", from, to)
		}
		*field(c) = n
		return nil
	}
}

var stepSyntax = regexp.MustCompile(`^[a-z]+!?$`)

var nameSyntax = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

func names(field func(*Config) *[]string) func(*Config, string) error {
	return list(field, nameSyntax, "names, each once, separated by commas")
}

var memberSyntax = regexp.MustCompile(`^@?[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// members are users, and groups with "@".
func members(field func(*Config) *[]string) func(*Config, string) error {
	return list(field, memberSyntax, "users, and groups as @name, each once, separated by commas")
}

func list(field func(*Config) *[]string, syntax *regexp.Regexp, want string) func(*Config, string) error {
	return func(c *Config, v string) error {
		var list []string
		seen := map[string]bool{}
		for s := range strings.SplitSeq(v, ",") {
			if s = strings.TrimSpace(s); s == "" {
				continue
			}
			if !syntax.MatchString(s) || seen[s] {
				return errors.New(want)
			}
			seen[s] = true
			list = append(list, s)
		}
		*field(c) = list
		return nil
	}
}

// age is a duration of at least least.
func age(field func(*Config) *time.Duration, least time.Duration) func(*Config, string) error {
	return func(c *Config, v string) error {
		d, err := duration(v)
		if err != nil {
			return err
		}
		if d < least {
			return fmt.Errorf("at least %s", least)
		}
		*field(c) = d
		return nil
	}
}

var errDuration = errors.New("a time as in 30s, 10m, 2h or 7d")

// duration reads "90s", "1h30m" or "7d"; days are the only unit that Go's own does not
// know. "0" needs no unit. It is not negative.
func duration(s string) (time.Duration, error) {
	days, rest, found := strings.Cut(s, "d")
	if !found {
		days, rest = "0", s
	}
	n, err := strconv.ParseUint(days, 10, 16)
	if err != nil {
		return 0, errDuration
	}
	total := time.Duration(n) * 24 * time.Hour
	if rest == "" && found {
		return total, nil
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 || d > math.MaxInt64-total {
		return 0, errDuration
	}
	return total + d, nil
}

var sizeSyntax = regexp.MustCompile(`^([0-9]{1,12})([KMGT]?)i?B?$`)

// size is a number of bytes, "500M" or "20GiB"; units are powers of 1024.
func size(field func(*Config) *uint64) func(*Config, string) error {
	return func(c *Config, v string) error {
		m := sizeSyntax.FindStringSubmatch(v)
		if m == nil {
			return errors.New("a size as in 500M, 20G or 1T, or 0")
		}
		n, err := strconv.ParseUint(m[1], 10, 64)
		unit := uint64(1)
		if m[2] != "" {
			unit <<= 10 * (strings.Index("KMGT", m[2]) + 1)
		}
		if err != nil || n > math.MaxInt64/unit {
			return errors.New("a size below 8 EiB")
		}
		*field(c) = n * unit
		return nil
	}
}

func level(c *Config, v string) error {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	l, ok := levels[v]
	if !ok {
		return errors.New("debug, info, warn or error")
	}
	c.Log.Level = l
	return nil
}

func format(c *Config, v string) error {
	if v != "text" && v != "json" {
		return errors.New("text or json")
	}
	c.Log.JSON = v == "json"
	return nil
}
