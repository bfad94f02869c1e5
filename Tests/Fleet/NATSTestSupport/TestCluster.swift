import Glibc
import SystemPackage

extension TestServer {
    /// Runs `body` with a cluster of three servers.
    package static func withCluster(
        _ version: Version, _ body: ([TestServer]) async throws -> Void
    ) async throws {
        let ports = try freePorts(3)
        let routes = ports.map { "\"nats-route://127.0.0.1:\($0)\"" }.joined(separator: ", ")
        func settings(_ index: Int) -> String {
            "cluster { name: c, listen: \"127.0.0.1:\(ports[index])\", routes: [\(routes)], no_advertise: true }"
        }
        try await TemporaryFolder.run { folder in
            try await run(version, in: folder, name: "s0", settings(0)) { first in
                try await run(version, in: folder, name: "s1", settings(1)) { second in
                    try await run(version, in: folder, name: "s2", settings(2)) { third in
                        try await body([first, second, third])
                    }
                }
            }
        }
    }

    /// Returns different ports of the loopback interface that no program uses.
    package static func freePorts(_ count: Int) throws -> [Int] {
        var sockets: [CInt] = []
        defer { for socket in sockets { close(socket) } }
        return try (0..<count).map { _ in
            let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
            sockets.append(descriptor)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(INADDR_LOOPBACK).bigEndian
            var size = socklen_t(MemoryLayout<sockaddr_in>.size)
            let status = withUnsafeMutablePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                    bind(descriptor, address, size) == 0 ? getsockname(descriptor, address, &size) : -1
                }
            }
            guard status == 0 else { throw Errno(rawValue: errno) }
            return Int(UInt16(bigEndian: address.sin_port))
        }
    }
}
