import DescriptorIO

/// The protocol that a `ChoosingSession` has chosen. Its session writes the value; the command reads it afterwards.
final class ChosenProtocol: Sendable {
    private let held = Guarded(UpdateProtocol.ota)

    var value: UpdateProtocol {
        get { held.with { $0 } }
        set { _ = held.exchange(newValue) }
    }
}
