// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/config/table"
)

// Each function below returns the Set of a key for a kind of value.

func wantPath(field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, v string) error {
		if v != "" && (!filepath.IsAbs(v) || strings.ContainsAny(v, "\x00\n")) {
			return errors.New("an absolute path")
		}
		if v != "" {
			v = filepath.Clean(v)
		}
		*field(c) = v
		return nil
	}
}

// wantProgram is a path, or a name that is looked for in PATH.
func wantProgram(field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, v string) error {
		if v == "" || strings.ContainsAny(v, "\x00\n ") || strings.Contains(v, "/") && !filepath.IsAbs(v) {
			return errors.New("a program's name or absolute path")
		}
		*field(c) = v
		return nil
	}
}

func wantChoice(field func(*Config) *string, accepted ...string) func(*Config, string) error {
	return func(c *Config, v string) error {
		if !slices.Contains(accepted, v) {
			return errors.New(strings.Join(accepted[:len(accepted)-1], ", ") + " or " + accepted[len(accepted)-1])
		}
		*field(c) = v
		return nil
	}
}

// wantCapability takes a compute capability. YAML takes 10.0 for a number and writes it as 10.
func wantCapability(field func(*Config) *string) func(*Config, string) error {
	set := wantChoice(field, "8.0", "8.9", "9.0", "10.0")
	return func(c *Config, v string) error {
		if v == "8" || v == "9" || v == "10" {
			v += ".0"
		}
		return set(c, v)
	}
}

var nameSyntax = regexp.MustCompile(`^@?[A-Za-z_][A-Za-z0-9_.-]*\$?$`)

func wantNames(field func(*Config) *[]string) func(*Config, string) error {
	return func(c *Config, v string) error {
		var list []string
		for s := range strings.SplitSeq(v, ",") {
			if s = strings.TrimSpace(s); s == "" {
				continue
			}
			if !nameSyntax.MatchString(s) {
				return errors.New("users, and groups as @name, separated by commas")
			}
			list = append(list, s)
		}
		*field(c) = list
		return nil
	}
}

func wantPrefix(field func(*Config) *netip.Prefix) func(*Config, string) error {
	return func(c *Config, v string) error {
		p, err := netip.ParsePrefix(v)
		if err != nil || !p.Addr().Is4() || p.Bits() > 24 {
			return errors.New("an IPv4 network of at least 256 addresses, as in 100.64.0.0/10")
		}
		if p.Masked() != p {
			return errors.New("the network's own address: " + p.Masked().String())
		}
		*field(c) = p
		return nil
	}
}

// wantAge is a duration; 0, or at least least.
func wantAge(field func(*Config) *time.Duration, least time.Duration) func(*Config, string) error {
	return func(c *Config, v string) error {
		d, err := table.ParseDuration(v)
		if err != nil {
			return fmt.Errorf("%w, or 0", err)
		}
		if d != 0 && d < least {
			return errors.New("0, or at least " + least.String())
		}
		*field(c) = d
		return nil
	}
}

// ageOrAuto is an age, or the word auto for Auto.
func ageOrAuto(field func(*Config) *time.Duration, least time.Duration) func(*Config, string) error {
	set := wantAge(field, least)
	return func(c *Config, v string) error {
		if v == "auto" {
			*field(c) = Auto
			return nil
		}
		if err := set(c, v); err != nil {
			return fmt.Errorf("%w, or auto", err)
		}
		return nil
	}
}

// bytesIn is a number of bytes between two bounds.
func bytesIn(field func(*Config) *uint64, from, to uint64, accepted string) func(*Config, string) error {
	return func(c *Config, v string) error {
		n, err := table.ParseBytes(v)
		if err != nil || n < from || n > to {
			return errors.New(accepted)
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

// isAddress accepts an IP address.
func isAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// relayAddress takes a name or an address, and a port.
func relayAddress(s string) bool {
	host, port, err := net.SplitHostPort(s)
	n, bad := strconv.ParseUint(port, 10, 16)
	return err == nil && bad == nil && n > 0 && host != "" && !strings.ContainsAny(host, "/@ \t\n")
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
