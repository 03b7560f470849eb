package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// needlessWorth is how many needless halts in a week are worth a warning: fewer are the price of stopping at all.
const needlessWorth = 5

// halts counts the halts of the last week that stopped nothing wrong: each cost a person a key press.
func (p *patient) halts(ctx context.Context) diagnosis {
	const check = "halts"
	if !p.served || p.ask == nil {
		return fine(check, "counted while a server runs")
	}
	out, errOut, status, err := p.ask(ctx, []string{"halts", "--json"}, nil)
	if err != nil || status != 0 {
		return warning(check, "", "they can't be counted: %s", strings.TrimSpace(fmt.Sprint(err)+" "+string(errOut)))
	}
	var list []struct {
		Workspace, By string
		Needless      bool
	}
	if err := json.Unmarshal(out, &list); err != nil {
		return warning(check, "", "they can't be counted: %v", err)
	}
	needless, by := 0, map[string]int{}
	for _, h := range list {
		if h.Needless {
			needless++
			by[h.Workspace]++
		}
	}
	found := fmt.Sprintf("%d in the last 7 days, %d of them needless", len(list), needless)
	if needless < needlessWorth {
		return fine(check, "%s", found)
	}
	most := slices.MaxFunc(slices.Sorted(maps.Keys(by)), func(a, b string) int { return by[a] - by[b] })
	return warning(check, fmt.Sprintf("`perdure handoff log %s` says why; --untested, --flaky, --needs and --shares of `perdure set` take known noise out", most),
		"%s, %d in %s", found, by[most], most)
}
