//! Ports of the node: two pods that take the same one cannot share a node.

use outrigger_model::pod::HostPort;

/// Whether some port is wanted by both.
pub fn clash(a: &[HostPort], b: &[HostPort]) -> bool {
    a.iter().any(|a| b.iter().any(|b| same(a, b)))
}

fn same(a: &HostPort, b: &HostPort) -> bool {
    let address = a.ip == b.ip || is_every_address(&a.ip) || is_every_address(&b.ip);
    address && a.port == b.port && a.protocol == b.protocol
}

fn is_every_address(ip: &str) -> bool {
    matches!(ip, "" | "0.0.0.0" | "::")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_clash_on_the_same_address_or_any() {
        let port =
            |ip: &str, port, protocol: &str| HostPort { ip: ip.into(), port, protocol: protocol.into() };
        let table = [
            (port("", 80, "TCP"), true),
            (port("10.0.0.1", 80, "TCP"), true),
            (port("10.0.0.2", 80, "TCP"), false),
            (port("0.0.0.0", 80, "TCP"), true),
            (port("", 80, "UDP"), false),
            (port("", 81, "TCP"), false),
        ];
        for (other, expected) in table {
            let taken = [port("10.0.0.1", 80, "TCP")];
            assert_eq!(clash(std::slice::from_ref(&other), &taken), expected, "{other:?}");
        }
    }
}
