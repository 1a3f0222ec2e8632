//go:build corpus

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"context"
	"fmt"
	"sync"
)

// site has the parts of siteParts that were set up so far on a cluster: each part once, with the error of its setup.
type site struct {
	mu  sync.Mutex
	has map[string]error
}

// setUpSite returns when the cluster has a part of siteParts; "" is no part.
func (c *cluster) setUpSite(ctx context.Context, part string) error {
	if part == "" {
		return nil
	}
	c.site.mu.Lock()
	defer c.site.mu.Unlock()
	err, tried := c.site.has[part]
	if !tried {
		if err = c.runSiteScripts(ctx, part); err != nil {
			err = fmt.Errorf("the site's %s: %w", part, err)
		}
		c.site.has[part] = err
	}
	return err
}

func (c *cluster) runSiteScripts(ctx context.Context, part string) error {
	run := func(host, script string) error {
		if script == "" {
			return nil
		}
		_, err := c.Exec(ctx, host, "root", "bash", "-euc", script)
		return err
	}
	scripts := siteParts[part]
	if err := run("ctl", scripts.onController); err != nil {
		return err
	}
	hosts := []string{"ctl"}
	for lane := range c.lanes {
		own, _ := c.laneNodes(lane)
		hosts = append(hosts, own...)
	}
	for _, host := range hosts {
		if err := run(host, scripts.onEach); err != nil {
			return err
		}
	}
	return nil
}
