import DescriptorIO
import Glibc

/// The owner of an open file descriptor. It closes the descriptor when the last reference is released. A message is sent
/// with a duplicate, so the sender's descriptor stays open. Equality compares the identity of the owners.
public final class DBusFileDescriptor: Sendable {
    private let held: Guarded<CInt?>

    /// Takes ownership of `descriptor`. No other code may close it.
    public init(adopting descriptor: CInt) { held = Guarded(descriptor) }

    deinit { close() }

    /// Transfers ownership to the caller, which must close the descriptor. Nil if it was already transferred or closed.
    public func take() -> CInt? { held.exchange(nil) }

    /// Closes the descriptor. Does nothing if it was already transferred or closed.
    public func close() {
        if let descriptor = take() { _ = Glibc.close(descriptor) }
    }

    /// Runs `body` with the open descriptor, or with nil. The descriptor stays open while `body` runs.
    public func withDescriptor<Result>(_ body: (CInt?) -> Result) -> Result { held.with { body($0) } }
}

extension DBusFileDescriptor: Hashable {
    public static func == (left: DBusFileDescriptor, right: DBusFileDescriptor) -> Bool { left === right }
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
