// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// Site is where a site has its policies, and how the policies are bounded.
type Site struct {
	Folder   string // of programs: sing-policy-NAME
	Settings string // folder of settings: NAME.yaml, if the site has any
	Timeout  time.Duration
	Memory   int64 // bytes; 0: no bound
}

// Configs are the policies of these names, with their settings as they are on disk now. All mistakes are reported at
// once; the policies are returned nevertheless, without the settings that could not be read.
func (s Site) Configs(names []string) ([]Config, error) {
	var all []Config
	var errs []error
	for _, name := range names {
		c := Config{Name: name, Path: filepath.Join(s.Folder, sdk.ProgramPrefix+name), Timeout: s.Timeout, Memory: s.Memory}
		if err := s.completeConfig(&c); err != nil {
			errs = append(errs, fmt.Errorf("policy %s: %w", name, err))
		}
		if st, err := os.Stat(c.Path); err != nil {
			errs = append(errs, fmt.Errorf("policy %s: %w", name, err))
		} else if st.Mode()&0o111 == 0 || !st.Mode().IsRegular() {
			errs = append(errs, fmt.Errorf("policy %s: %s is no program", name, c.Path))
		}
		all = append(all, c)
	}
	return all, errors.Join(errs...)
}

// Own is the policy that a site writes itself, in a file.
const (
	Own     = "starlark"
	ownFile = "policy.star"
)

// completeConfig gives a policy its settings, and the file that they name to be watched: an administrator's change of
// the file takes effect at the next question.
func (s Site) completeConfig(c *Config) error {
	settings, err := readSettings(filepath.Join(s.Settings, c.Name+".yaml"))
	if err != nil {
		return err
	}
	if c.Name == Own && settings["file"] == nil {
		own := filepath.Join(s.Settings, ownFile)
		c.Watch = []string{own}
		if _, err := os.Stat(own); err == nil {
			if settings == nil {
				settings = map[string]any{}
			}
			settings["file"] = own
		}
	}
	if file, ok := settings["file"].(string); ok {
		c.Watch = []string{file}
	}
	if settings != nil {
		c.Settings, err = json.Marshal(settings)
	}
	return err
}

// readSettings reads a policy's YAML; nil if there is no such file.
func readSettings(file string) (map[string]any, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var settings map[string]any
	if err := yaml.Unmarshal(raw, &settings); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return settings, nil
}
