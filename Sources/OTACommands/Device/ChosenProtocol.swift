import DescriptorIO

/// Which protocol a session that chooses has chosen.
final class ChosenProtocol: Sendable {
    private let held = Guarded(UpdateProtocol.ota)

    var value: UpdateProtocol {
        get { held.with { $0 } }
        set { _ = held.exchange(newValue) }
    }
}
