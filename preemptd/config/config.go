// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package config is what an administrator tells preemptd: one struct, filled from one
// table of keys (keys.go). A value comes from a flag, else from the environment, else from
// the file, else from the table. What is not in the table is an error that names what may
// have been meant.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/viper"
	"golang.org/x/sys/unix"
)

// File is where the configuration is unless told otherwise.
const File = "/etc/singularity-slurm/preemptd.yaml"

// Config is the configuration. keys.go says what each field means.
type Config struct {
	Slurmrestd  string
	TokenUser   string
	TokenFile   string
	Scontrol    string
	MungeSocket string
	ProxydPort  string
	Listen      string
	Web         Web
	Operators   []string
	Sacctmgr    string
	Journal     string

	Interval   time.Duration
	MaxActions int
	Grace      time.Duration
	Retention  time.Duration
	Patience   Patience
	Rules      Rules
	Tiers      Tiers
	Promised   Promised
	Power      Power
	Policies   []string
	Policy     Policy

	Metrics Metrics
	Log     Log
	PauseAt string

	origins map[string]origin // by key
}

// Web is the page for browsers.
type Web struct {
	Address, TLSCert, TLSKey string
	Hosts                    []string
}

// Patience is how long steps of actions may take.
type Patience struct{ Checkpoint, Vacate, Start time.Duration }

// Rules bind what policies want.
type Rules struct{ Window, MinRun, CoolDown time.Duration }

// Tiers are the QOS of each.
type Tiers struct{ Premium, Standard, Basic []string }

// Promised is the GPU fraction of each tier, in percent.
type Promised struct{ Premium, Standard, Basic int }

// Power is what GPUs may draw, and are taken to draw, in watts.
type Power struct{ Cap, Busy, Idle int }

// Policy is what all policies have in common.
type Policy struct {
	Folder   string
	Settings string
	Timeout  time.Duration
	Memory   uint64
}

// Metrics is where they are served.
type Metrics struct{ Address string }

// Log is what is logged, and how.
type Log struct {
	Level slog.Level
	JSON  bool
}

// origin is the value of a key as it was written, and where.
type origin struct{ value, where string }

// Load reads the file, and lets the environment, of "NAME=value" as from os.Environ, and
// then flags, by key, override it. All that is wrong is reported at once. A file need not
// exist: every key has a default. Nobody but root may be able to write it: it names
// programs that root runs.
func Load(file string, environ []string, flags map[string]string) (*Config, error) {
	text, err := read(file)
	if err != nil {
		return nil, err
	}
	return parse(file, text, environ, flags)
}

// Default returns the configuration of a site that has written none.
func Default() (*Config, error) { return parse(File, nil, nil, nil) }

// read returns the content of a file that only root can have written.
func read(file string) ([]byte, error) {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) && file == File {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, fmt.Errorf("configuration: %s: %w", file, err)
	}
	if st.Uid != 0 && st.Uid != uint32(os.Geteuid()) || st.Mode&0o022 != 0 {
		return nil, fmt.Errorf("configuration: %s: owned by user %d with mode %04o; want root and not writable by others (chown root, chmod 644)",
			file, st.Uid, st.Mode&0o7777)
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("configuration: %s: %w", file, err)
	}
	return text, nil
}

func parse(file string, text []byte, environ []string, flags map[string]string) (*Config, error) {
	v := viper.New()
	v.SetConfigType("yaml")
	if err := v.ReadConfig(bytes.NewReader(text)); err != nil {
		return nil, fmt.Errorf("configuration: %s: %w", file, plainer(err))
	}
	var errs []error
	names := v.AllKeys()
	slices.Sort(names)
	for _, name := range names {
		if wrong := unknown(name, v.Get(name)); wrong != "" {
			errs = append(errs, fmt.Errorf("%s: %s: %s", file, name, wrong))
		}
	}
	c := &Config{origins: make(map[string]origin)}
	for _, k := range keys {
		o := origin{k.value, "default"}
		if v.InConfig(k.name) || v.IsSet(k.name) {
			value, err := written(v.Get(k.name), k.list)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", file, k.name, err))
				continue
			}
			o = origin{value, file}
		}
		if value, ok := lookup(environ, Environment(k.name)); ok {
			o = origin{value, Environment(k.name)}
		}
		if value, ok := flags[k.name]; ok {
			o = origin{value, "--" + Flag(k.name)}
		}
		c.origins[k.name] = o
		if err := k.set(c, o.value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %.100q: want %w", o.where, k.name, o.value, err))
		}
	}
	if c.TokenFile == "" && !strings.HasPrefix(c.Slurmrestd, "unix:") {
		errs = append(errs, fmt.Errorf("token.file: missing; slurmrestd at %s wants a token", c.Slurmrestd))
	}
	if (c.Web.TLSCert == "") != (c.Web.TLSKey == "") {
		errs = append(errs, errors.New("web.tls_cert, web.tls_key: one without the other"))
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("configuration: %w", errors.Join(errs...))
	}
	return c, nil
}

// NeedsRestart names the keys whose values differ and take effect only at a start.
func (c *Config) NeedsRestart(other *Config) []string {
	var all []string
	for _, k := range keys {
		if k.fixed && c.origins[k.name].value != other.origins[k.name].value {
			all = append(all, k.name)
		}
	}
	return all
}

// unknown says what is wrong with a name that is in the file, if it is none of a key.
func unknown(name string, value any) string {
	var inside []string // keys, if it is a section
	for _, k := range keys {
		if name == k.name || strings.HasPrefix(name, k.name+".") { // the value of k will be refused
			return ""
		}
		if key, ok := strings.CutPrefix(k.name, name+"."); ok {
			inside = append(inside, key)
		}
	}
	switch {
	case inside == nil:
		return "no such key" + meant(name)
	case value != nil:
		return "want a section, with keys " + strings.Join(inside, ", ")
	}
	return "" // an empty section
}

// written returns a YAML value as one would write it.
func written(v any, list bool) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case []any:
		if !list {
			return "", errors.New("want one value, found a list")
		}
		var items []string
		for _, item := range v {
			s, err := written(item, false)
			if err != nil {
				return "", err
			}
			items = append(items, s)
		}
		return strings.Join(items, ","), nil
	case map[string]any:
		return "", errors.New("want a value, found a section")
	default:
		return fmt.Sprint(v), nil
	}
}

func lookup(environ []string, name string) (string, bool) {
	for _, e := range slices.Backward(environ) {
		if n, value, ok := strings.Cut(e, "="); ok && n == name {
			return value, true
		}
	}
	return "", false
}

// plainer takes viper's own words off an error of the YAML parser.
func plainer(err error) error {
	var parse viper.ConfigParseError
	if errors.As(err, &parse) {
		if inner := parse.Unwrap(); inner != nil {
			return inner
		}
	}
	return err
}
