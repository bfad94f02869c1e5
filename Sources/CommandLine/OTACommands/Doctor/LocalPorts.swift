import Glibc

/// A serial port of a microcontroller board, either a USB CDC port or a USB serial adapter.
package struct SerialPort: Equatable {
    package let path: String
    /// True if this user may read and write the port.
    let isAccessible: Bool
    /// The group whose members may read and write the port. Nil if the port's group does not have both permissions, is root's group, or is
    /// unknown.
    let group: String?

    package init(path: String, isAccessible: Bool, group: String?) {
        self.path = path
        self.isAccessible = isAccessible
        self.group = group
    }

    /// Finds all serial ports in a folder.
    package static func all(in folder: String = "/dev") -> [SerialPort] {
        SystemFile.names(in: folder)
            .filter { $0.hasPrefix("ttyACM") || $0.hasPrefix("ttyUSB") }
            .map { SerialPort("\(folder)/\($0)") }
    }

    private init(_ path: String) {
        self.path = path
        isAccessible = access(path, R_OK | W_OK) == 0
        var status = stat()
        let bits = mode_t(S_IRGRP | S_IWGRP)
        guard stat(path, &status) == 0, status.st_mode & bits == bits, status.st_gid != 0 else {
            group = nil
            return
        }
        group = getgrgid(status.st_gid).map { String(cString: $0.pointee.gr_name) }
    }

    /// Checks that this user may use each port.
    package static func check(_ ports: [SerialPort]) -> Check {
        let refused = ports.filter { !$0.isAccessible }
        guard let first = refused.first else {
            let names = ports.map(\.path).joined(separator: ", ")
            return .ok(
                "serial",
                ports.isEmpty ? "no serial port is connected (/dev/ttyACM*, /dev/ttyUSB*)" : "\(names): read and write")
        }
        let names = refused.map(\.path).joined(separator: ", ")
        guard let group = first.group else {
            return .missing(
                "serial", "this user cannot read and write \(names)",
                "allow it until the device is unplugged: sudo setfacl -m u:$USER:rw \(Shell.quoted(first.path))")
        }
        return .missing(
            "serial", "this user cannot read and write \(names): only the group \(group) can",
            "join the group: sudo usermod -aG \(Shell.quoted(group)) $USER", "then log out and in again")
    }
}

/// Checks that this process can use UDP.
enum DatagramCheck {
    static func examine() -> Check {
        let families = [(AF_INET, "IPv4"), (AF_INET6, "IPv6")]
        let usable = families.filter { canOpen($0.0) }.map(\.1)
        guard !usable.isEmpty else {
            return .missing(
                "udp", "cannot open a UDP socket: \(String(cString: strerror(errno)))",
                "check the limits of this session, such as a sandbox or a container without network")
        }
        let names = usable.joined(separator: " and ")
        let networks = interfaces()
        return .ok(
            "udp",
            networks.isEmpty
                ? "\(names) sockets work; no network is connected, so only this machine can be reached"
                : "\(names) sockets work; networks: \(networks.joined(separator: ", "))")
    }

    private static func canOpen(_ family: CInt) -> Bool {
        let descriptor = socket(family, CInt(SOCK_DGRAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return false }
        close(descriptor)
        return true
    }

    /// The names of the network interfaces that are up and have an address, except loopback.
    private static func interfaces() -> [String] {
        var first: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&first) == 0 else { return [] }
        defer { freeifaddrs(first) }
        var names: Set<String> = []
        var next = first
        while let entry = next?.pointee {
            next = entry.ifa_next
            let family = entry.ifa_addr.map { CInt($0.pointee.sa_family) }
            let flags = CInt(bitPattern: entry.ifa_flags)
            guard family == AF_INET || family == AF_INET6, flags & CInt(IFF_UP) != 0,
                flags & CInt(IFF_LOOPBACK) == 0
            else { continue }
            names.insert(String(cString: entry.ifa_name))
        }
        return names.sorted()
    }
}
