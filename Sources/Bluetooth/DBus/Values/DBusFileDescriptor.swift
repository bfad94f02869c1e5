import DescriptorIO
import Glibc

/// Owns an open file descriptor, and closes the descriptor when the last reference to this object is released.
///
/// If a message contains this object, the connection sends a duplicate of the descriptor, and the descriptor stays open. Two references
/// are equal only if they refer to the same object.
public final class DBusFileDescriptor: Sendable {
    private let held: Guarded<CInt?>

    /// Takes ownership of `descriptor`. Other code must not close this descriptor.
    public init(adopting descriptor: CInt) { held = Guarded(descriptor) }

    deinit { close() }

    /// Transfers ownership of the descriptor to the caller. The caller must then close the descriptor. Returns nil if the descriptor
    /// was already transferred or closed.
    public func take() -> CInt? { held.exchange(nil) }

    /// Closes the descriptor. Does nothing if the descriptor was already transferred or closed.
    public func close() {
        if let descriptor = take() { _ = Glibc.close(descriptor) }
    }

    /// Runs `body` with the open descriptor. No other thread can close or transfer the descriptor while `body` runs. The
    /// argument of `body` is nil if the descriptor was already transferred or closed.
    public func withDescriptor<Result>(_ body: (CInt?) -> Result) -> Result { held.with { body($0) } }
}

extension DBusFileDescriptor: Hashable {
    public static func == (left: DBusFileDescriptor, right: DBusFileDescriptor) -> Bool { left === right }
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
