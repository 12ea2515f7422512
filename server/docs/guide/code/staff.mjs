// The employees that the programs of the guide store.

export const departments = ["Sales", "Marketing", "Finance"];
const lastNames = ["Jones", "Chen", "Silva", "Novak", "Haddad", "Smith", "Okafor"];

export function employees(count = 60) {
  return Array.from({ length: count }, (_, number) => {
    const lastName = lastNames[number % lastNames.length];
    return {
      department: departments[number % departments.length],
      id: String(number).padStart(6, "0"),
      lastName,
      mail: `${lastName.toLowerCase()}.${number}@example.com`,
      age: 20 + ((number * 7) % 45),
    };
  });
}
