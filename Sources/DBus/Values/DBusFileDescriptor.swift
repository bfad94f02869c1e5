import DescriptorIO
import Glibc

/// The owner of an open file descriptor. The descriptor is closed when the last reference to its owner is released. A sent
/// message contains a duplicate of the descriptor, so the descriptor of the sender stays open. Two owners are equal only if
/// they are the same object.
public final class DBusFileDescriptor: Sendable {
    private let held: Guarded<CInt?>

    /// Takes ownership of `descriptor`. No other code may close it.
    public init(adopting descriptor: CInt) { held = Guarded(descriptor) }

    deinit { close() }

    /// Transfers ownership to the caller, which must close the descriptor. Returns nil if the descriptor was already
    /// transferred or closed.
    public func take() -> CInt? { held.exchange(nil) }

    /// Closes the descriptor. Does nothing if the descriptor was already transferred or closed.
    public func close() {
        if let descriptor = take() { _ = Glibc.close(descriptor) }
    }

    /// Runs `body` with the open descriptor. The descriptor stays open while `body` runs. `body` gets nil if the descriptor
    /// was already transferred or closed.
    public func withDescriptor<Result>(_ body: (CInt?) -> Result) -> Result { held.with { body($0) } }
}

extension DBusFileDescriptor: Hashable {
    public static func == (left: DBusFileDescriptor, right: DBusFileDescriptor) -> Bool { left === right }
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
