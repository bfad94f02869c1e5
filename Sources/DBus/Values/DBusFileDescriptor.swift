import DescriptorIO
import Glibc

/// The owner of an open file descriptor: closes it when the last reference goes. A message that holds one is sent with a
/// duplicate, so the sender's stays open. Compared by identity.
public final class DBusFileDescriptor: Sendable {
    private let held: Guarded<CInt?>

    /// Takes over `descriptor`, which nobody else may close.
    public init(adopting descriptor: CInt) { held = Guarded(descriptor) }

    deinit { close() }

    /// Hands the descriptor to the caller, who closes it; nil when it was taken or closed before.
    public func take() -> CInt? { held.exchange(nil) }

    /// Harmless when it was taken or closed before.
    public func close() {
        if let descriptor = take() { _ = Glibc.close(descriptor) }
    }

    /// The open descriptor, or nil; it stays open while `body` runs.
    public func withDescriptor<Result>(_ body: (CInt?) -> Result) -> Result { held.with { body($0) } }
}

extension DBusFileDescriptor: Hashable {
    public static func == (left: DBusFileDescriptor, right: DBusFileDescriptor) -> Bool { left === right }
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
