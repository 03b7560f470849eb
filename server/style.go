package server

import (
	"strconv"

	"perdure/handoff"
)

// What the client on the box says of its standard output, where that is a terminal.
const (
	envColumns = "PERDURE_COLUMNS"
	envNoColor = "PERDURE_NO_COLOR"
)

// style is how text for a person is laid out on the call's terminal; plain where there is none.
func (c *call) style(verbose bool) handoff.Style {
	s := c.r.style()
	s.Verbose = verbose
	return s
}

// style is that of the request's terminal. NO_COLOR (no-color.org) and a terminal that can't are honoured.
func (r *Request) style() handoff.Style {
	width, name := 0, r.terminalName()
	if r.Term != nil {
		if width = int(r.Term.Cols); width == 0 {
			width = 80
		}
	} else if n, err := strconv.Atoi(r.Env[envColumns]); err == nil && n > 0 {
		width = n
	}
	color := width > 0 && name != "" && name != "dumb" && r.Env["NO_COLOR"] == "" && r.Env[envNoColor] == ""
	return handoff.Style{Width: width, Color: color}
}

func (r *Request) terminalName() string {
	if r.Term != nil {
		return r.Term.Term
	}
	return r.Env["TERM"]
}
