import BlueZ
import DBus
import Glibc

/// The process that a `LinkGuard` starts. It receives the start and the end of each link on stdin, which is a socket. When the other
/// end of the socket is closed, it disconnects the remaining links through bluetoothd.
enum LinkGuardProcess {
    /// The only argument of the process. It is internal, so the help does not list it.
    static let word = "--guard-links"

    /// The first byte of a packet. The D-Bus path of a device follows.
    enum Notice: UInt8 {
        case opened = 0x2B
        case ended = 0x2D
    }

    /// The time limit to disconnect the links, in seconds.
    private static let limit: UInt32 = 5

    /// Runs the guard process until the links have ended.
    static func run() async {
        // Detach from the terminal, and do not keep a file system busy.
        setsid()
        _ = chdir("/")
        let links = listen()
        guard !links.isEmpty else { return }
        alarm(limit)
        try? await BlueZClient.endLinks(to: links)
    }

    /// Receives notices until the other end is closed, and returns the remaining links.
    private static func listen() -> Set<DBusObjectPath> {
        var links: Set<DBusObjectPath> = []
        var packet = [UInt8](repeating: 0, count: 512)
        while true {
            let count = recv(STDIN_FILENO, &packet, packet.count, 0)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return links }
            let device = DBusObjectPath(String(decoding: packet[1..<count], as: UTF8.self))
            switch Notice(rawValue: packet[0]) {
            case .opened: links.insert(device)
            case .ended: links.remove(device)
            case nil: break
            }
        }
    }
}
