//go:build tools

// Package tools names the server that the local stack builds from this module.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
