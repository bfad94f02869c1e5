/// A property of an exported interface. The connection keeps its value and answers reads. `DBusConnection.update` changes
/// the value.
public struct DBusProperty: Sendable {
    /// How `PropertiesChanged` announces a new value (annotation `EmitsChangedSignal`).
    public enum Announcement: String, Sendable {
        case value = "true"
        /// The signal contains the property's name, but not the new value.
        case invalidation = "invalidates"
        case nothing = "false"
        /// The value never changes.
        case constant = "const"
    }

    /// The code that accepts or refuses a value from another program. It runs before the value is stored, and the value has
    /// the declared type. A thrown error refuses the value; it is sent like an error of a `DBusMethod.Handler`.
    public typealias Setter = @Sendable (DBusValue) async throws -> Void

    public let name: String
    public let value: DBusValue
    public let announcement: Announcement
    let setter: Setter?

    /// Creates a property. Without `setter`, other programs cannot set it.
    public init(
        _ name: String, _ value: DBusValue, announcing announcement: Announcement = .value, setter: Setter? = nil
    ) {
        self.name = name
        self.value = value
        self.announcement = announcement
        self.setter = setter
    }
}
