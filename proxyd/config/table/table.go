// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package table reads the configuration of a daemon into a struct. A table says which keys there are: their names,
// defaults, meaning, and how a value is read into its field. proxyd/config and preemptd/config have one table each.
//
// A key's value comes from a flag, else from the environment, else from the file, else from the table. A key that is
// in the file and not in the table is an error, which names the key that may have been meant.
package table

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/viper"
	"golang.org/x/sys/unix"
)

// Table has all keys of a daemon's configuration, in the order in which Explain prints them. C is the struct that the
// values are read into.
type Table[C any] struct {
	Daemon    string // "proxyd": the command `proxyd config` prints all keys
	Variables string // the names of environment variables begin with this
	Keys      []Key[C]
}

// Key is a line of a configuration file.
type Key[C any] struct {
	Name    string // a dot separates section and key
	Old     string // the key's name in an older release, which files and variables may still have; mostly ""
	Default string // as an administrator would write it; may be empty
	Meaning string // for an administrator; may have several lines
	// Set reads a value into its field. Its error is the accepted form: it is printed after "want".
	Set func(c *C, value string) error
	// List: the value may be a YAML list. Set gets the items with commas between them.
	List bool
	// AtStart: a change takes effect at the daemon's next start only.
	AtStart bool
}

// Values are the values of all keys, by name.
type Values map[string]Value

// Value is the value of a key as it was written.
type Value struct{ Text, Source string }

// Sources of values. The other sources are the name of the file and a flag, with its dashes.
const (
	FromDefault     = "default"
	FromEnvironment = "environment"
)

// ReadFile returns the content of a configuration file. Only root (or the user that runs the
// daemon) may be able to write the file, for the file names programs that root runs.
func ReadFile(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if st.Uid != 0 && st.Uid != uint32(os.Geteuid()) || st.Mode&0o022 != 0 {
		return nil, fmt.Errorf("%s: owned by user %d with mode %04o; want root and not writable by others (chown root, chmod 644)",
			file, st.Uid, st.Mode&0o7777)
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return text, nil
}

// NoteEmpty reports whether a file exists and is empty, and writes a note to w if so: with `config >FILE`, the shell
// empties the file first.
func NoteEmpty(w io.Writer, file string) bool {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > 0 {
		return false
	}
	fmt.Fprintf(w, "%s is empty: each key has its default. If the shell has just emptied the file (>FILE), put its content back\n", file)
	return true
}

// Parse sets the fields of c from text, which is the content of file, from environ ("NAME=value", as os.Environ
// returns it) and from flags, by the names of keys. The errors are all mistakes; then c is incomplete.
func (t *Table[C]) Parse(c *C, file string, text []byte, environ []string, flags map[string]string) (Values, []error) {
	v := viper.New()
	v.SetConfigType("yaml")
	if err := v.ReadConfig(bytes.NewReader(text)); err != nil {
		return nil, []error{fmt.Errorf("%s: %w", file, unwrapYAML(err))}
	}
	errs := t.unknownKeys(v, file)
	values := make(Values, len(t.Keys))
	for _, k := range t.Keys {
		value, err := t.findValue(&k, v, file, environ, flags)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", file, k.Name, err))
			continue
		}
		values[k.Name] = value
		if err := k.Set(c, value.Text); err != nil {
			source := value.Source
			if source == FromEnvironment {
				source = t.Variable(k.Name)
			}
			errs = append(errs, fmt.Errorf("%s: %s: %.100q: want %w", source, k.Name, value.Text, err))
		}
	}
	return values, errs
}

// findValue returns the value of a key: of a flag, else of the environment, else of the file, else the default.
func (t *Table[C]) findValue(k *Key[C], v *viper.Viper, file string, environ []string, flags map[string]string) (Value, error) {
	value := Value{k.Default, FromDefault}
	names := []string{k.Name}
	if k.Old != "" {
		names = []string{k.Old, k.Name} // the last one that is set counts
	}
	for _, name := range names {
		if !v.InConfig(name) && !v.IsSet(name) {
			continue
		}
		text, err := textOf(v.Get(name), k.List)
		if err != nil {
			return value, err // a mistake in the file is reported even if another value overrides it
		}
		value = Value{text, file}
	}
	for _, name := range names {
		if text, ok := lookUpVariable(environ, t.Variable(name)); ok {
			value = Value{text, FromEnvironment}
		}
	}
	if text, ok := flags[k.Name]; ok {
		value = Value{text, "--" + Flag(k.Name)}
	}
	return value, nil
}

// Variable returns the name of the environment variable that overrides a key.
func (t *Table[C]) Variable(name string) string {
	return t.Variables + strings.ToUpper(strings.ReplaceAll(name, ".", "_"))
}

// Flag returns the name of the flag that overrides a key, without dashes.
func Flag(name string) string { return strings.NewReplacer(".", "-", "_", "-").Replace(name) }

// ChangedKeys returns the names of the keys that differ between two configurations.
func (t *Table[C]) ChangedKeys(a, b Values) []string {
	return t.changedKeys(a, b, func(Key[C]) bool { return true })
}

// NeedsRestart returns the names of the keys that differ between two configurations and take effect only at a start.
func (t *Table[C]) NeedsRestart(a, b Values) []string {
	return t.changedKeys(a, b, func(k Key[C]) bool { return k.AtStart })
}

// changedKeys returns the names of the keys that counts accepts and that differ between two configurations.
func (t *Table[C]) changedKeys(a, b Values, counts func(Key[C]) bool) []string {
	var names []string
	for _, k := range t.Keys {
		if counts(k) && a[k.Name].Text != b[k.Name].Text {
			names = append(names, k.Name)
		}
	}
	return names
}

// unknownKeys returns an error for each name in the file that is not a key.
func (t *Table[C]) unknownKeys(v *viper.Viper, file string) []error {
	var errs []error
	names := v.AllKeys()
	slices.Sort(names)
	for _, name := range names {
		if mistake := t.describeUnknown(name, v.Get(name)); mistake != "" {
			errs = append(errs, fmt.Errorf("%s: %s: %s", file, name, mistake))
		}
	}
	return errs
}

// describeUnknown returns a message about an unknown name in the file, or "" if the name is a key.
func (t *Table[C]) describeUnknown(name string, value any) string {
	var keysInside []string // if the name is that of a section
	for _, k := range t.Keys {
		if name == k.Old && name != "" {
			return ""
		}
		if name == k.Name || strings.HasPrefix(name, k.Name+".") { // a section in the place of a value: textOf refuses it
			return ""
		}
		if key, ok := strings.CutPrefix(k.Name, name+"."); ok {
			keysInside = append(keysInside, key)
		}
	}
	switch {
	case keysInside == nil:
		return "no such key" + t.suggestKey(name)
	case value != nil:
		return "want a section, with keys " + strings.Join(keysInside, ", ")
	}
	return "" // an empty section
}

// textOf returns a YAML value as an administrator would write it. The items of a list are joined by commas.
func textOf(v any, list bool) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case []any:
		if !list {
			return "", errors.New("want one value, found a list")
		}
		var items []string
		for _, item := range v {
			text, err := textOf(item, false)
			if err != nil {
				return "", err
			}
			items = append(items, text)
		}
		return strings.Join(items, ","), nil
	case map[string]any:
		return "", errors.New("want a value, found a section")
	default:
		return fmt.Sprint(v), nil
	}
}

// lookUpVariable returns the last value of a variable in environ.
func lookUpVariable(environ []string, name string) (string, bool) {
	for _, e := range slices.Backward(environ) {
		if n, value, ok := strings.Cut(e, "="); ok && n == name {
			return value, true
		}
	}
	return "", false
}

// unwrapYAML removes viper's own words from an error of the YAML parser.
func unwrapYAML(err error) error {
	var parse viper.ConfigParseError
	if errors.As(err, &parse) {
		if inner := parse.Unwrap(); inner != nil {
			return inner
		}
	}
	return err
}
