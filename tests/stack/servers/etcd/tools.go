//go:build tools

// Package tools names the server that the local stack builds from this module.
package tools

import _ "go.etcd.io/etcd/server/v3"
